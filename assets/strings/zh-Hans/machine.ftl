### Verdict on this machine.

experts-approximate = 近似：模型未说明每个 token 使用多少专家
first-generation = 这是加载后的首次生成；下一次更能说明问题
reply-slowed = 回复速度降至初始的 { $part }%
context-at = 上下文已占窗口的 { $part }%
judge-nothing = 尚未测量
step-uses = 一个普通步使用 { $part }% 的内存带宽
step-moves = 一个普通步达到 { $moved } / { $bandwidth } GB/s
step-unbelievable = 一个普通步超出了实测的内存能力：当时有其他程序在运行，请重新测量
step-as-should = { $moved }，符合预期
step-small = { $moved }：小模型，每步的代价不在于字节
step-processor = { $moved }：在处理器上由计算而非内存决定速度
step-somewhat-below = { $moved }，略低于本机能力
step-well-below = { $moved }，远低于本机能力
drafting-delivers = 草稿达到普通解码理论上限的 { $ratio }×
reply-near-ceiling = 最近回复接近普通解码理论上限，{ $ratio }×
reply-below-ceiling = 最近回复低于普通解码理论上限，{ $ratio }×
accepted-per-round-n = 每轮接受 { $accept } 个 token
swap-grew = 最近回复期间交换增加了 { $size } MiB
no-swap-growth = 最近回复期间交换没有增加
pressure-critical-finding = 内存压力严重：其他应用和模型需要的超过现有内存
pressure-high-finding = 内存压力较高：其他应用和模型需要的超过现有内存
