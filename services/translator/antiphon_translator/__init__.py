"""The translator: turns a conversation into the events of one response. It keeps no state between turns but caches."""
