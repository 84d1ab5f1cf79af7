### Menu of the tray.

server-off = Server aus
stop-generating = Generierung anhalten
pause-server = Server pausieren
open-app = mlx-dspark öffnen
tray-settings = Einstellungen …
quit-app = mlx-dspark beenden
queue-waiting = , { $n } wartend
serving-on = Bedient { $url }
server-starting = Server startet
server-paused = Server pausiert
server-failed = Server gescheitert
resume-server = Server fortsetzen
start-server = Server starten
ready-to-load = Bereit, ein Modell zu laden
downloading-percent = Lädt herunter, { $percent } %
reading-prompt = Liest den Prompt
