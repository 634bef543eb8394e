"""Coverage: functions of a guest's kernel modules that ran."""
