"""The façade, a module a question: only here do facts, profiles, planning and reporting meet.

The public names are those of ``capplan`` itself, which loads them on first use.
"""
