package runner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/local/rundir"
)

// openAs opens a file for appending with the rights of a user, and of nobody else.
func openAs(path string, u *rundir.User) (*os.File, error) {
	if u == nil || os.Geteuid() != 0 {
		return openRegular(path)
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		var out opened
		if out.err = become(u); out.err == nil {
			out.file, out.err = openRegular(path)
		}
		done <- out
	}()
	out := <-done
	return out.file, out.err
}

// become gives this thread alone the rights of a user, for good.
func become(u *rundir.User) error {
	groups := make([]uint32, max(1, len(u.Groups)))
	copy(groups, u.Groups)
	if _, _, no := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(unsafe.Pointer(&groups[0])), 0); no != 0 {
		return no
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(u.GID), uintptr(u.GID), uintptr(u.GID)); no != 0 {
		return no
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(u.UID), uintptr(u.UID), uintptr(u.UID)); no != 0 {
		return no
	}
	return nil
}

// openRegular opens a file for appending, unless it is something that could keep its
// writer waiting.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, reasonOf(err)
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() && path != os.DevNull {
		f.Close()
		return nil, errors.New("it is no regular file")
	}
	return f, nil
}

// copyTo has what the tasks write go to the file that their user wants, too, in the
// folder of the job unless its name is absolute.
func (o *output) copyTo(run *rundir.Run) {
	if run.Log == "" {
		return
	}
	name := inside(run.Dir, run.LogName())
	takes := inheritance(run)
	end := takes.mask()
	f, err := openAs(name, run.User)
	end()
	if err != nil {
		o.write(-1, "", []byte(fmt.Sprintf("[norn] %s cannot be written: %v\n", name, err)))
		return
	}
	o.copy = f
}
