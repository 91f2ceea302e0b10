"""The laboratory around gbgnn: experiments, baselines, leaderboards and the paper's printed numbers.

Its commands (``gbgnn reproduce``, ``gbgnn compare``, ``gbgnn baseline``) plug into ``gbgnn``; the library
never imports it.
"""
