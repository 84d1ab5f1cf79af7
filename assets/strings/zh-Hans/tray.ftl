### Menu of the tray.

server-off = 服务器已关闭
stop-generating = 停止生成
pause-server = 暂停服务器
open-app = 打开 mlx-dspark
tray-settings = 设置…
quit-app = 退出 mlx-dspark
queue-waiting = ，{ $n } 个等待中
serving-on = 服务地址 { $url }
server-starting = 服务器正在启动
server-paused = 服务器已暂停
server-failed = 服务器故障
resume-server = 恢复服务器
start-server = 启动服务器
ready-to-load = 可以加载模型
downloading-percent = 正在下载 { $percent }%
reading-prompt = 正在读取提示词
