"""The one door through which every `sat` leaves: candidates are replayed on the original network and judged as written.

It shares no code with the search: it evaluates the query's syntax tree in numpy on what onnxruntime computes.
"""
