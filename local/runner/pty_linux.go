package runner

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/creack/pty"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// terminal gives the only task of a run a terminal: what it writes there is its output,
// and what comes by InputFile is typed there. The task's end is returned, which the caller
// closes.
func (r *runner) terminal() (task *os.File, err error) {
	master, task, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("no terminal: %w", err)
	}
	pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}) // until somebody tells another
	if u := r.run.User; u != nil && os.Geteuid() == 0 {
		if err := task.Chown(int(u.UID), -1); err != nil {
			complain(fmt.Errorf("the terminal stays that of root: %w", err))
		}
	}
	input := filepath.Join(r.dir, rundir.InputFile)
	if err := unix.Mkfifo(input, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		complain(fmt.Errorf("nothing can be typed: %w", err))
	} else if in, err := os.OpenFile(input, os.O_RDWR|syscall.O_NONBLOCK, 0); err != nil { // for writing, too: so it has no end
		complain(fmt.Errorf("nothing can be typed: %w", err))
	} else {
		go types(in, master)
	}
	r.log.take(master, 0, "")
	return task, nil
}

// types has what comes by InputFile typed at a terminal, until that is closed.
func types(in, master *os.File) {
	defer in.Close()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var i api.Input
		if json.Unmarshal(line, &i) != nil {
			continue
		}
		if i.Rows > 0 && i.Cols > 0 {
			if err := pty.Setsize(master, &pty.Winsize{Rows: i.Rows, Cols: i.Cols}); err != nil {
				return
			}
		}
		if _, err := master.Write(i.Data); err != nil {
			return
		}
	}
}
