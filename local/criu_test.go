package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog"
)

// fakeCRIU does with a shell what CRIU does: dump ends the processes, restore
// brings one back that is not a child of the caller, unless it is to fail.
const fakeCRIU = `#!/bin/sh
verb=$1; shift
while [ $# -gt 0 ]; do
	case $1 in
	--tree) tree=$2; shift;;
	--images-dir) dir=$2; shift;;
	--pidfile) pidfile=$2; shift;;
	esac
	shift
done
cd %[1]s
[ ! -e fail-$verb ] || { echo "(00.1) Error (criu/x.c:1): no way" > $dir/$verb.log; exit 1; }
case $verb in
dump) echo image > $dir/core.img; kill -KILL $tree;;
restore)
	[ -e $dir/core.img ] || exit 2
	echo $dir >> restored
	setsid sh -c 'echo $$ > '$pidfile'; while [ ! -e enough ]; do sleep 0.05; done' >&3 2>&1 &
	while [ ! -s $pidfile ]; do sleep 0.05; done;;
esac
`

// A job that CRIU saves goes on from the last checkpoint that is whole, also when
// a run behind it was lost, and over a restart of the daemon. One whose checkpoint
// cannot be restored begins anew, and is not believed to have done anything.
func TestCRIU(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH")) // of the daemon's runners
	h := newHere(t, "fifo", 1, nil)
	if err := os.WriteFile(filepath.Join(dir, "criu"), fmt.Appendf(nil, fakeCRIU, h.work), 0o755); err != nil {
		t.Fatal(err)
	}
	spec := h.sh(0, "echo $NORN_RUN >> began; "+awaits("enough"))
	spec.Stop, spec.Retry = api.Stop{CRIU: true, Grace: 20}, api.Retry{Limit: 1}
	a := h.submit(spec)
	h.made("began")
	h.running(a, 1)
	h.do(server.Requeue, a)
	h.running(a, 2)
	kept := h.last(a, eventlog.Evict).Kept
	if kept <= 0 {
		t.Errorf("it keeps %v of work", kept)
	}
	until(t, "the runner is killed", func() bool { return killRunner(h.runDir(a, 2)) })
	h.running(a, 3)
	if again := h.last(a, eventlog.Evict).Kept; again != kept {
		t.Errorf("it keeps %v of work, the checkpoint has %v", again, kept)
	}
	if err := h.Drain(background, h.me, api.Drain{}); err != nil {
		t.Fatal(err)
	}
	h.do(server.Requeue, a)
	h.until(a, api.Waiting)
	h.down()
	h.up()
	if err := h.Drain(background, h.me, api.Drain{Undo: true}); err != nil {
		t.Fatal(err)
	}
	h.running(a, 4)
	images := func(run int) string { return filepath.Join(h.runDir(a, run), "images") + "\n" }
	if want := images(1) + images(1) + images(3); h.text("restored") != want {
		t.Errorf("it was restored from\n%swant\n%s", h.text("restored"), want)
	}
	h.make("fail-restore")
	h.do(server.Requeue, a)
	h.running(a, 6) // the fifth could not be restored
	until(t, "it begins anew in run 6 alone", func() bool { return h.text("began") == "1\n6\n" })
	if e := h.last(a, eventlog.Progress); e.Kept != 0 {
		t.Errorf("it began anew with %v of work", e.Kept)
	}
	h.make("enough")
	h.until(a, api.Done)
}
