package live

import (
	"testing"

	"github.com/norn-scheduler/norn/api"
)

// TestBoth: a job that ends while jobs are listed is listed once, as one that has ended.
func TestBoth(t *testing.T) {
	ended := []api.Job{{ID: "1", State: api.Done}, {ID: "10", State: api.Done}}
	active := []api.Job{{ID: "10", State: api.Running}, {ID: "9", State: api.Running}}
	got := both(ended, active)
	if len(got) != 3 || got[0].ID != "1" || got[1].ID != "9" || got[2].ID != "10" || got[2].State != api.Done {
		t.Errorf("%+v", got)
	}
}
