"""Many profiles and plans as jobs: JSON in, JSON out, on this machine or on a cluster.

A job is one run of ``capplan profile`` or ``capplan recommend`` in a process of its own. This
package knows neither: it carries files and arguments there and back, and keeps what was finished.
"""
