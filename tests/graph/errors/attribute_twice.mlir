// 2:10: attribute 'mesh' is given by the syntax
sdy.mesh @mesh = <["x"=2]> {mesh}
