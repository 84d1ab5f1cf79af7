### The desktop around the window, quitting, and what is done with all chats at once.

login-not-changed = Launch at login was not changed
attach-instead = Drop files on the window, or paste their text.
path-instead = Write the path into the field beside the button, or drop it on the window.
no-dialog = No file dialog opened
reason-instead = { $reason } { $instead }
is-downloaded = { $name } is downloaded
is-loaded-now = It is being loaded now.
checked-can-load = It is checked and can be loaded.
can-be-asked = It can be asked now.
engine-stopped-window = The engine stopped; the window says why.
race-broke-off = The race broke off
race-over = The race is over
race-over-line = Its lanes and the verdict are in the Lab.
benchmark-broke-off = The benchmark broke off
benchmark-over = The benchmark is over
benchmark-over-line = Its figures are in the Lab.
work-download = a model is being downloaded
work-load = a model is being loaded
work-race = a race is being run
work-benchmark = a benchmark is being run
work-reply = a reply is being written
quit-replies = { $n ->
    [one] A reply is still being written. It will be kept as far as it got.
   *[other] { $n } replies are still being written. They will be kept as far as they got.
}
quit-clients = { $names } are being answered. Their replies will be cut off.
quit-waiting = { $name } waits to be downloaded and will have to be asked for again.
quit-waiting-more = { $n } more models wait to be downloaded and will have to be asked for again.
quit-in-touch = { $name } is connected: it asked a moment ago and will find no server.
quit-in-touch-more = { $names } are connected: they asked a moment ago and will find no server.
and-between = {" "}and{" "}
token-not-kept = The access token was not kept
token-is-kept = The access token is kept
token-is-sent = The hub is sent it from now on.
token-forgotten = The access token is forgotten
chats-exported = { $n ->
    [one] 1 chat exported
   *[other] { $n } chats exported
}
chats-not-exported = The chats were not exported
all-chats-deleted = All chats are deleted
not-written-there = `{ $path }` cannot be written: { $error }. Choose another place, or free some space.
chats-not-read = The chats cannot be read: { $error }.
folder-with-models = A folder with models
exported-chats = Exported chats
no-chats-kept = No chats are kept here.
no-token-build = This build keeps no access token.
