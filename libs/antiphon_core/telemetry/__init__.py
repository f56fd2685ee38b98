"""Telemetry of a process: metrics, traces, log fields, and the ids that connect them.

Instruments are declared in `metrics.py`, spans and their attributes in `spans.py`, log fields in `log_fields.py`. None
of them ever has content: no prompts, no answers, no credentials.
"""
