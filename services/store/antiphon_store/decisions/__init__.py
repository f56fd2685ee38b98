"""What each operation of the store decides, once for all backends: functions over `rows.view.View`."""
