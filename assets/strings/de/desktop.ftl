### The desktop around the window, quitting, and what is done with all chats at once.

login-not-changed = Der Start bei der Anmeldung wurde nicht geändert
attach-instead = Ziehen Sie Dateien auf das Fenster, oder fügen Sie ihren Text ein.
path-instead = Schreiben Sie den Pfad in das Feld neben der Schaltfläche, oder ziehen Sie ihn auf das Fenster.
no-dialog = Kein Dateidialog ging auf
reason-instead = { $reason } { $instead }
is-downloaded = { $name } ist heruntergeladen
is-loaded-now = Es wird jetzt geladen.
checked-can-load = Es ist geprüft und kann geladen werden.
can-be-asked = Es kann jetzt gefragt werden.
engine-stopped-window = Die Engine hat angehalten; das Fenster sagt, warum.
race-broke-off = Das Rennen brach ab
race-over = Das Rennen ist vorbei
race-over-line = Seine Bahnen und das Urteil stehen im Labor.
benchmark-broke-off = Der Benchmark brach ab
benchmark-over = Der Benchmark ist vorbei
benchmark-over-line = Seine Zahlen stehen im Labor.
work-download = ein Modell wird heruntergeladen
work-load = ein Modell wird geladen
work-race = ein Rennen läuft
work-benchmark = ein Benchmark läuft
work-reply = eine Antwort wird geschrieben
quit-replies = { $n ->
    [one] Eine Antwort wird noch geschrieben. Sie bleibt, so weit sie gekommen ist.
   *[other] { $n } Antworten werden noch geschrieben. Sie bleiben, so weit sie kamen.
}
quit-clients = { $names } werden gerade beantwortet. Ihre Antworten brechen ab.
quit-waiting = { $name } wartet auf den Download und muss neu angefordert werden.
quit-waiting-more = { $n } weitere Modelle warten auf den Download und müssen neu angefordert werden.
quit-in-touch = { $name } ist verbunden: Es hat eben noch gefragt und wird keinen Server finden.
quit-in-touch-more = { $names } sind verbunden: Sie haben eben noch gefragt und werden keinen Server finden.
and-between = {" "}und{" "}
token-not-kept = Das Zugriffstoken wurde nicht gemerkt
token-is-kept = Das Zugriffstoken ist gemerkt
token-is-sent = Der Hub bekommt es von jetzt an gesendet.
token-forgotten = Das Zugriffstoken ist vergessen
chats-exported = { $n ->
    [one] 1 Chat exportiert
   *[other] { $n } Chats exportiert
}
chats-not-exported = Die Chats wurden nicht exportiert
all-chats-deleted = Alle Chats sind gelöscht
not-written-there = `{ $path }` kann nicht geschrieben werden: { $error }. Wählen Sie einen anderen Ort, oder schaffen Sie Platz.
chats-not-read = Die Chats können nicht gelesen werden: { $error }.
folder-with-models = Ein Ordner mit Modellen
exported-chats = Exportierte Chats
no-chats-kept = Hier werden keine Chats aufbewahrt.
no-token-build = Diese Fassung bewahrt kein Zugriffstoken auf.
