package watch

import (
	"fmt"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// object is an object of the API.
type object interface {
	runtime.Object
	meta.Object
}

// feed passes versions of objects on in an order in which they can have come about: also
// after a watch broke off, when all that has happened meanwhile is found at once. It then
// tells first of objects that have gone or have no devices any more, and afterwards of
// those that have taken their place. It implements cache.ReflectorStore, and is used by
// one goroutine.
type feed[T object] struct {
	tell  func(x T, gone bool)
	frees func(T) bool // tells whether an object holds nothing; nil: none does
	last  map[types.UID]T
	begun chan struct{} // is closed once all that was there has been told
}

var _ cache.ReflectorStore = (*feed[*meta.PartialObjectMetadata])(nil)

// Add implements cache.ReflectorStore.
func (f *feed[T]) Add(obj any) error { return f.take(obj, false) }

// Update implements cache.ReflectorStore.
func (f *feed[T]) Update(obj any) error { return f.take(obj, false) }

// Delete implements cache.ReflectorStore.
func (f *feed[T]) Delete(obj any) error { return f.take(obj, true) }

// Resync implements cache.ReflectorStore.
func (f *feed[T]) Resync() error { return nil }

func (f *feed[T]) take(obj any, gone bool) error {
	x, is := obj.(T)
	if !is {
		return fmt.Errorf("the API server sent %T, and no %T", obj, x)
	}
	if gone {
		delete(f.last, x.GetUID())
	} else {
		f.last[x.GetUID()] = x
	}
	f.tell(x, gone)
	return nil
}

// Replace implements cache.ReflectorStore: these are all objects of one moment.
func (f *feed[T]) Replace(all []any, _ string) error {
	there := make(map[types.UID]bool, len(all))
	for _, obj := range all {
		if x, is := obj.(T); is {
			there[x.GetUID()] = true
		}
	}
	for uid, x := range f.last {
		if !there[uid] {
			delete(f.last, uid)
			f.tell(x, true)
		}
	}
	for _, free := range []bool{true, false} {
		for _, obj := range all {
			if x, is := obj.(T); is && (f.frees != nil && f.frees(x)) != free {
				continue
			}
			if err := f.take(obj, false); err != nil {
				return err
			}
		}
	}
	select {
	case <-f.begun:
	default:
		close(f.begun)
	}
	return nil
}
