package local_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// damage loses or changes one file of a state folder, and says which and how.
func damage(t *testing.T, r *rand.Rand, state string) string {
	t.Helper()
	files := stateFiles(t, state)
	logs, _ := filepath.Glob(filepath.Join(state, "events", "*")) // packed ones, too, and the mark
	files = append(files, logs...)
	path := files[r.IntN(len(files))]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	what := []string{"removed", "shortened", "changed", "emptied"}[r.IntN(4)]
	switch {
	case what == "removed":
		err = os.Remove(path)
	case what == "shortened" && len(b) > 0:
		err = os.Truncate(path, r.Int64N(int64(len(b))))
	case what == "changed" && len(b) > 0:
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		err = os.WriteFile(path, b, 0o600)
	default:
		err = os.Truncate(path, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path + " was " + what
}

// A daemon is killed again and again, and each time a file of its state is lost or changed.
// It starts, gives no number twice, and runs no job twice at once. In the end every job has
// ended, or is held for want of its description.
func TestKilledAndDamaged(t *testing.T) {
	t.Parallel()
	rounds, _ := strconv.Atoi(os.Getenv("NORN_ROUNDS"))
	if rounds = max(rounds, 12); testing.Short() {
		rounds = 4
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	b := newBox(t, "srtf", 2)
	ctx := context.Background()
	b.up(true)
	last, did := 0, []string(nil)
	for range rounds {
		for i := range 3 {
			w := work{Ticks: 5 + r.IntN(60), Saves: i == 0}
			mode := []string{"checkpoint", "restart", "never"}[i]
			ids, err := b.client.Submit(ctx, b.spec("job", w, 1, mode, time.Duration(1+r.IntN(5))*time.Second))
			if err != nil {
				t.Fatalf("after %s: %v", strings.Join(did, ", "), err)
			}
			n, err := strconv.Atoi(ids[0])
			if err != nil || n <= last {
				t.Fatalf("job %s comes after job %d; %s", ids[0], last, strings.Join(did, ", "))
			}
			last = n
		}
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
		b.kill()
		did = append(did, damage(t, r, b.setup.State))
		b.up(true)
	}
	until(t, "all jobs have ended; "+strings.Join(did, ", "), func() bool {
		all, err := b.client.Jobs(ctx, api.Query{})
		return err == nil && !slices.ContainsFunc(all, func(j api.Job) bool {
			return j.State != api.Held || !strings.Contains(j.Reason, "its submission is lost")
		})
	})
	for id, lines := range b.lines() {
		for _, l := range lines {
			if l.what == "twice" {
				t.Errorf("run %d of job %s ran beside another; %s", l.run, id, strings.Join(did, ", "))
			}
		}
	}
}
