"""Telemetry of a process: metrics, traces, log fields, and the ids that connect them.

Instruments are declared in `metrics.py`, spans and their attributes in `spans.py`, log fields in `log_fields.py`. None
of the three ever holds content: no prompt, no answer, no credential.
"""
