-- How a chat's replies are drawn where that differs from the app's settings: JSON of the window's own making.
CREATE TABLE session_options (
    session_id INTEGER PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE,
    options    TEXT    NOT NULL
);
