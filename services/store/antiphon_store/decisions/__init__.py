"""The rules of each operation, once for all backends: functions of a `rows.view.View`."""
