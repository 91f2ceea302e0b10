"""What the rules do round by round: loss, angle to the gradient, guaranteed progress."""

from gbgnn import GBGNNClassifier, datasets

data = datasets.csbm(n_nodes=1000, n_classes=3, homophily=0.7, seed=0)
for rule in ("gradient", "samme", "samme_r"):
    model = GBGNNClassifier(rule=rule, n_rounds=8, random_state=0)
    model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
    accuracy = model.score(data.test, data.y[data.test])
    print(f"\n{rule}: test accuracy {accuracy:.3f} ({model.stop_reason_.message})")
    print("round   eta  train loss  val accuracy  cosine  guaranteed")
    for row in model.history_:
        print(
            f"{row['round']:5d} {row['eta']:5.2f} {row['train_loss']:11.4f} {row['val_accuracy']:13.3f} "
            f"{row['cosine']:7.3f} {row['guaranteed_decrease']:11.4f}"
        )
