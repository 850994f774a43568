package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// fresh remembers with which version of an object a write was tried last, so that one that
// was refused for its version is not tried with the same version again.
type fresh struct {
	mu   sync.Mutex
	last map[types.UID]string
}

// take tells whether a version has not been tried, and notes that it is.
func (f *fresh) take(uid types.UID, version string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[types.UID]string{}
	}
	if f.last[uid] == version {
		return false
	}
	f.last[uid] = version
	return true
}

// drop forgets an object.
func (f *fresh) drop(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.last, uid)
}
