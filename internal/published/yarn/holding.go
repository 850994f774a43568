package yarn

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// Holdings are what jobs of each size hold in a Pooled cluster. The zero value
// is ready to use.
type Holdings struct{ bySize []cluster.Alloc }

// Of is what a job of that many GPUs holds. It must not be changed.
func (h *Holdings) Of(gpus int) *cluster.Alloc {
	for gpus >= len(h.bySize) {
		n := len(h.bySize)
		h.bySize = append(h.bySize, cluster.Alloc{
			Pieces: []cluster.Piece{{Tasks: int32(n), Shares: 1}},
			Shares: []cluster.Share{{Milli: int32(n) * int32(unit.One)}},
		})
	}
	return &h.bySize[gpus]
}
