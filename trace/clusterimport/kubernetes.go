package clusterimport

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/clusterspec/kubespec"
)

// kubernetes makes one description of files that kubectl get has written: nodes, and the
// queues of Kueue, Norn, Volcano and KAI (package kubespec). All files must be of that
// kind.
func kubernetes(files []File, opt Options) (*Result, error) {
	if opt.Pools {
		return nil, errors.New("nodes of Kubernetes are in no partitions that could become pools")
	}
	var im kubespec.Import
	out := &Result{}
	for _, f := range files {
		objects, err := im.Read(f.Name, bytes.NewReader(f.Text))
		if err != nil {
			return nil, err
		}
		out.Read = append(out.Read, fmt.Sprintf("%s: kubectl get, %s", f.Name, unit.Count(objects, "object")))
	}
	spec, remarks, err := im.Spec()
	if err != nil {
		return nil, err
	}
	out.Spec = spec
	for i := range remarks {
		out.Lost = append(out.Lost, Loss{remarks[i].String(), remarks[i].Count})
	}
	return out, nil
}
