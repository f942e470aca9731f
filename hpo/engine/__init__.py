"""The search engine: its main loop, the clock and the scheduler, the strategies, ask-and-tell."""
