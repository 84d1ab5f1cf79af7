### Menu of the tray.

server-off = サーバー停止
stop-generating = 生成を停止
pause-server = サーバーを一時停止
open-app = mlx-dspark を開く
tray-settings = 設定…
quit-app = mlx-dspark を終了
queue-waiting = 、{ $n } 件待機中
serving-on = { $url } で提供中
server-starting = サーバー起動中
server-paused = サーバー一時停止中
server-failed = サーバー失敗
resume-server = サーバーを再開
start-server = サーバーを起動
ready-to-load = モデルを読み込めます
downloading-percent = ダウンロード中 { $percent }%
reading-prompt = プロンプトを読み込み中
