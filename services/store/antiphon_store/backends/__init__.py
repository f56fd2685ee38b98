"""Engines that keep the store's data. `base.Backend` says what each must do; `registry` picks one by URL."""
