### Menu of the tray.

server-off = Server off
stop-generating = Stop generating
pause-server = Pause server
open-app = Open mlx-dspark
tray-settings = Settings…
quit-app = Quit mlx-dspark
queue-waiting = , { $n } waiting
serving-on = Serving on { $url }
server-starting = Server starting
server-paused = Server paused
server-failed = Server failed
resume-server = Resume server
start-server = Start server
ready-to-load = Ready to load a model
downloading-percent = Downloading { $percent } %
reading-prompt = Reading the prompt
