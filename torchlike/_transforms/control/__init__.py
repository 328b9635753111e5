"""Control flow: functions of tensors that a program repeats or chooses from."""
