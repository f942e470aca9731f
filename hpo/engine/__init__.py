"""The search engine: the main loop, the clock, the scheduler, the strategies and ask-and-tell."""
