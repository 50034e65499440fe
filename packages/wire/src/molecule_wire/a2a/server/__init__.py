"""The A2A server core: everything that an A2A server decides, without I/O, threads, clock or framework.

`requests` reads a request of either version and binding; `bindings` and `renderer` write the answer as its
caller reads it; `turns` and `task_log` are the task machine and its numbered events; `service` has the
operations on tasks that one process keeps; `paging` and `resumption` are the rules of lists and streams.
"""
