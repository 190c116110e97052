// 2:10: mesh <["x\y"=2]>: the name of an axis has a quote, a backslash or a control character
sdy.mesh @mesh = <["x\\y"=2]>
