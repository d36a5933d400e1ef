"""Result files of other tools, read as observations.

One module a format; ``registry`` chooses by content, ``checks`` compares what a file states twice.
Importers only read: what a figure does not allow to conclude becomes a flag.
"""
