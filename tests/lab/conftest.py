from tests.cli.conftest import Run, fitted, run, tables

__all__ = ["Run", "fitted", "run", "tables"]
