"""The decisions of each operation, for all backends: functions that read and change rows through a `rows.view.View`."""
