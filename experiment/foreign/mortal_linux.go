package foreign

import (
	"os/exec"
	"syscall"
)

// mortal has a command die with this process, however that ends: one that hangs would not see
// that its standard input has ended.
func mortal(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
