from __future__ import annotations

import csv
import io

from gbgnn_lab.experiments.report import Entry, Report, Table, to_latex

TABLE = Table(
    "Accuracy in %",
    ["Model", "Cora"],
    [[Entry("A_B | C"), Entry("80.1 ± 0.3", strong=True, mark="a")], [Entry("D"), Entry("-")]],
)


def test_markdown_is_exact():
    assert TABLE.markdown() == (
        "| Model | Cora |\n| --- | ---: |\n| A_B \\| C | **80.1 ± 0.3** <sup>a</sup> |\n| D | - |"
    )


def test_latex_is_exact():
    assert TABLE.latex() == "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            r"  \caption{Accuracy in \%}",
            r"  \begin{tabular}{lr}",
            r"    \toprule",
            r"    Model & Cora \\",
            r"    \midrule",
            r"    A\_B | C & \textbf{80.1 $\pm$ 0.3}$^{a}$ \\",
            r"    D & - \\",
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def test_signs_that_latex_takes_for_commands_are_written_out():
    assert to_latex(r"a\b{c}^~<>") == (r"a\textbackslash{}b\{c\}\textasciicircum{}\textasciitilde{}$<$$>$")


def test_a_page_of_one_table_has_its_caption_as_a_sentence():
    assert Report("Title", [TABLE], ["A note."]).markdown() == (
        f"# Title\n\nAccuracy in %\n\n{TABLE.markdown()}\n\nA note.\n"
    )


def test_a_page_of_several_has_headings():
    text = Report("Title", [TABLE, TABLE]).markdown()
    assert text.count("## Accuracy in %\n\n| Model") == 2


def test_csv_has_a_column_for_every_name():
    page = Report("Title", [], data=[{"a": 1, "b": "x,y"}, {"a": 2, "c": None}])
    assert list(csv.reader(io.StringIO(page.csv()))) == [["a", "b", "c"], ["1", "x,y", ""], ["2", "", ""]]


def test_a_page_is_three_files(tmp_path):
    page = Report("Title", [TABLE], ["A note."], [{"a": 1}])
    written = page.write(tmp_path / "new")
    paths = written.files
    assert written.folder == tmp_path / "new"
    assert [path.name for path in paths] == ["table.md", "table.tex", "table.csv"]
    assert [path.read_text() for path in paths] == [page.markdown(), page.latex(), page.csv()]
    assert paths[1].read_text().endswith("% A note.\n")
