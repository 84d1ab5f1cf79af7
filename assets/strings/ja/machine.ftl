### Verdict on this machine.

experts-approximate = 概算：1 トークンで使うエキスパート数をモデルが示していません
first-generation = 読み込み後の最初の生成です。次のほうが参考になります
reply-slowed = 返答の速さが最初の { $part }% に落ちました
context-at = コンテキストはウィンドウの { $part }%
judge-nothing = まだ測定していません
step-uses = 通常ステップはメモリ帯域幅の { $part }% を使います
step-moves = 通常ステップは { $moved } / { $bandwidth } GB/s を使います
step-unbelievable = 通常ステップが測定したメモリ性能を超えています。測定時に他の処理があったようです。再測定してください
step-as-should = { $moved }。想定どおりです
step-small = { $moved }。小さなモデルで、ステップのコストはバイト数ではありません
step-processor = { $moved }。プロセッサーではメモリではなく演算が速さを決めます
step-somewhat-below = { $moved }。このマシンの性能をやや下回ります
step-well-below = { $moved }。このマシンの性能を大きく下回ります
drafting-delivers = ドラフトで通常の理論上限の { $ratio }× が出ています
reply-near-ceiling = 直近の返答は通常の理論上限に近い値でした（{ $ratio }×）
reply-below-ceiling = 直近の返答は通常の理論上限を下回りました（{ $ratio }×）
accepted-per-round-n = 1 ラウンドあたり { $accept } トークンを受理
swap-grew = 直近の返答でスワップが { $size } MiB 増えました
no-swap-growth = 直近の返答でスワップの増加はありません
pressure-critical-finding = メモリの負荷が危険な状態です。他のアプリとモデルが、ある以上を求めています
pressure-high-finding = メモリの負荷が高い状態です。他のアプリとモデルが、ある以上を求めています
