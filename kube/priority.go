package kube

import (
	"fmt"

	scheduling "k8s.io/api/scheduling/v1"

	"github.com/norn-scheduler/norn/kube/convert"
)

// noClass is the error of pods that name a PriorityClass that there is not.
type noClass struct{ name string }

func (e *noClass) Error() string {
	return fmt.Sprintf("its pods name the PriorityClass %s, which does not exist", e.name)
}

// priorityOf is the priority of pods: the one that they tell, else that of the PriorityClass
// that they name, else that of the default class. It fails where they name a class that there
// is not: the API server would refuse such pods.
//
// Source: the admission plugin Priority of Kubernetes, which gives pods their numbers. Of
// several default classes it takes the one with the lowest value.
func (w *watcher) priorityOf(a *convert.Ask) (int32, error) {
	if a.Ranked {
		return a.Priority, nil
	}
	if a.Class != "" {
		o, there, _ := w.classes.GetStore().GetByKey(a.Class)
		if !there {
			return 0, &noClass{a.Class}
		}
		return o.(*scheduling.PriorityClass).Value, nil
	}
	value, found := int32(0), false
	for _, o := range w.classes.GetStore().List() {
		if c := o.(*scheduling.PriorityClass); c.GlobalDefault && (!found || c.Value < value) {
			value, found = c.Value, true
		}
	}
	return value, nil
}
