"""The edge: takes HTTP requests, runs turns and sends their events. It stores nothing and renders no prompts."""
