"""Recurrent networks: LSTM and GRU."""
