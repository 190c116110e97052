// 2:10: mesh: the name of axis 0 has a quote, a backslash or a control character
sdy.mesh @mesh = <["x\\y"=2]>
