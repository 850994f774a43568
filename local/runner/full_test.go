//go:build linux

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/norn-scheduler/norn/local/rundir"
)

// A disk that is full holds up neither the tasks nor the end of the run; both
// ends are told when there is room.
func TestDiskFull(t *testing.T) {
	f := newRun(t, `head -c 3000000 /dev/zero | tr '\0' 'x'; echo; touch $WORK/written
		while [ ! -e $WORK/room ]; do sleep 0.01; done; echo there; exit 4`)
	if err := unix.Mount("norn-test", f.dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skip("needs root to mount a small disk: ", err)
	}
	t.Cleanup(func() {
		f.end()
		if err := unix.Unmount(f.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f.run.LogBytes = 0
	f.launch()
	f.status(rundir.Running)
	f.made("written")
	filler := filepath.Join(f.dir, rundir.OutputFile)
	if st, err := os.Stat(filler); err != nil || st.Size() > 512<<10 {
		t.Fatal(st, err)
	}
	if err := os.Truncate(filler, 0); err != nil {
		t.Fatal(err)
	}
	f.make("room")
	if e := f.exit(); e.Exit.Code != 4 || e.Cause != rundir.Exited {
		t.Errorf("%+v", e)
	}
	text := f.output()
	if at := strings.Index(text, "bytes of output were lost: no space left on device\n"); at < 0 || !strings.HasSuffix(text, "there\n") {
		t.Errorf("%q", text[max(0, len(text)-200):])
	}
}

// While the disk is full exit.json waits.
func TestDiskFullAtTheEnd(t *testing.T) {
	f := newRun(t, `while [ ! -e $WORK/go ]; do sleep 0.01; done; exit 4`)
	if err := unix.Mount("norn-test", f.dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("needs root to mount a small disk: ", err)
	}
	t.Cleanup(func() {
		f.end()
		if err := unix.Unmount(f.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f.launch()
	st := f.status(rundir.Running)
	filler, err := os.Create(filepath.Join(f.dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	filler.Close()
	f.make("go")
	f.eventually("the end of the task", func() bool { return !Alive(st.Tasks[0]) })
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	if e := f.exit(); e.Exit.Code != 4 {
		t.Errorf("%+v", e)
	}
}
