"""The warm worker: a process that has one instance read and compiled and its engines made, and waits for the run of it.

`prepare_instance.sh` starts it (`launch`), `run_instance.sh` hands it a command line of `verify` (`client.sh`, in bash
alone), it answers and ends. They meet in a `Place`: a folder named by the worker's process id, in a folder that is
private to the user, with

    identity   what was prepared, as text that the client compares with its own
    claim      made by the client that takes the worker (who makes it first has it)
    request    a FIFO: the number of words of the command line and the words, each ended by a NUL
    answer     a FIFO: `cold` (the files have changed since), or the exit status and the lines for stderr

Both sides notice the other's death, however it comes, by the FIFO that closes.
"""
