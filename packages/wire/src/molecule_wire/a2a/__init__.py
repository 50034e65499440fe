"""The A2A protocol without I/O: both dialects, their conversion, the task machine and the error table.

Import the modules: `envelopes` reads and frames JSON-RPC, `operations` and `versions` are its tables,
`convert` turns 0.3 into 1.0 and back, `tasks` folds events into tasks, `text` lifts the words out of an
answer, `errors` names what can go wrong.
"""

__all__: list[str] = []
