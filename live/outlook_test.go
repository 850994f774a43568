package live

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/norn-scheduler/norn/api"
)

// However many ask, one forecast is made; who leaves hinders nobody, and does not wait.
func TestOutlook(t *testing.T) {
	var o outlook
	var made atomic.Int32
	begun, enough := make(chan struct{}), make(chan struct{})
	play := func() *starts {
		made.Add(1)
		close(begun)
		<-enough
		return &starts{Forecast: api.Forecast{Policy: "srtf"}}
	}
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := o.get(ctx, play)
		left <- err
	}()
	<-begun
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left is told %v", err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if s, err := o.get(context.Background(), play); err != nil || s.Policy != "srtf" {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	close(enough)
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("%d were made", n)
	}
}
