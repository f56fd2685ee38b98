-- One event log: where it ends. It belongs to a response id that need not be stored.
CREATE TABLE event_log (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    response_id TEXT NOT NULL,
    next_position INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX event_log_by_response ON event_log (tenant, response_id);
CREATE INDEX event_log_by_end ON event_log (tenant, expires_at_ms);

-- Frames as they were appended, one row per append.
CREATE TABLE event_batch (
    log INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL,
    count INTEGER NOT NULL,
    terminal INTEGER NOT NULL,
    crc INTEGER NOT NULL, -- of everything else in the row and the response's id (event_log_rows.py)
    checkpoint_offset INTEGER, -- NULL when the append had no checkpoint
    token_ids BLOB NOT NULL, -- four bytes each, little endian
    frames BLOB NOT NULL
);
CREATE UNIQUE INDEX event_batch_by_position ON event_batch (log, first_sequence);
