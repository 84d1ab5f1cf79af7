### Verdict on this machine.

experts-approximate = Ungefähr: das Modell sagt nicht, wie viele Experten ein Token nutzt
first-generation = Dies war die erste Generierung nach dem Laden; die nächste sagt mehr
reply-slowed = Die Antwort fiel auf { $part } % ihres Anfangstempos
context-at = Kontext bei { $part } % des Fensters
judge-nothing = Noch nichts gemessen
step-uses = Ein einfacher Schritt nutzt { $part } % der Speicherbandbreite
step-moves = Ein einfacher Schritt bewegt { $moved } von { $bandwidth } GB/s
step-unbelievable = Ein einfacher Schritt bewegt mehr, als der Speicher bei der Messung hergab: damals lief etwas anderes, neu messen
step-as-should = { $moved }, wie es sein soll
step-small = { $moved }: ein kleines Modell, bei dem nicht die Bytes einen Schritt teuer machen
step-processor = { $moved }: auf dem Prozessor bestimmt das Rechnen das Tempo, nicht der Speicher
step-somewhat-below = { $moved }, etwas unter dem, was diese Maschine hergibt
step-well-below = { $moved }, deutlich unter dem, was diese Maschine hergibt
drafting-delivers = Entwerfen bringt { $ratio }× der einfachen Obergrenze
reply-near-ceiling = Die letzte Antwort kam der einfachen Obergrenze nahe, { $ratio }×
reply-below-ceiling = Die letzte Antwort blieb unter der einfachen Obergrenze, { $ratio }×
accepted-per-round-n = { $accept } Token je Runde angenommen
swap-grew = Swap wuchs während der letzten Antwort um { $size } MiB
no-swap-growth = Kein Swap-Zuwachs bei der letzten Antwort
pressure-critical-finding = Speicherlast KRITISCH: andere Apps und das Modell wollen mehr, als da ist
pressure-high-finding = Speicherlast hoch: andere Apps und das Modell wollen mehr, als da ist
