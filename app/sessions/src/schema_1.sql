-- Times are milliseconds since the Unix epoch. A row with deleted_at can still be restored; purge removes it.
CREATE TABLE session (
    id          INTEGER PRIMARY KEY,
    title       TEXT    NOT NULL,
    -- 1 until a person renames it
    title_auto  INTEGER NOT NULL DEFAULT 1,
    pinned      INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    -- which first message is shown; null takes the newest
    active_root INTEGER,
    deleted_at  INTEGER
);
CREATE INDEX session_recent ON session (updated_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE TABLE message (
    id           INTEGER PRIMARY KEY,
    session_id   INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    parent_id    INTEGER,
    role         TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    -- figures of the answer, JSON
    meta         TEXT    NOT NULL DEFAULT '{}',
    active_child INTEGER,
    created_at   INTEGER NOT NULL,
    deleted_at   INTEGER
);
CREATE INDEX message_session ON message (session_id, id);
CREATE INDEX message_parent ON message (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX message_streaming ON message (id) WHERE state = 'streaming';

-- Text of messages that are being written, appended so that a long answer is not rewritten at every save.
CREATE TABLE chunk (
    message_id INTEGER NOT NULL REFERENCES message (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    text       TEXT    NOT NULL,
    PRIMARY KEY (message_id, seq)
) WITHOUT ROWID;

-- What stands unsent in a composer; session 0 is the chat that does not exist yet.
CREATE TABLE draft (
    session_id INTEGER PRIMARY KEY,
    text       TEXT    NOT NULL
);

-- Trigrams find substrings in every script; the default tokenizer cannot split Chinese or Japanese.
CREATE VIRTUAL TABLE message_fts USING fts5 (text, content = 'message', content_rowid = 'id', tokenize = 'trigram');
CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    INSERT INTO message_fts (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER message_removed AFTER DELETE ON message BEGIN
    INSERT INTO message_fts (message_fts, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER message_changed AFTER UPDATE OF text ON message BEGIN
    INSERT INTO message_fts (message_fts, rowid, text) VALUES ('delete', old.id, old.text);
    INSERT INTO message_fts (rowid, text) VALUES (new.id, new.text);
END;
