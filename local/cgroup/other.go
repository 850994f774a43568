//go:build !linux

package cgroup

import (
	"errors"
)

const unavailable = "there are cgroups on Linux only"

var errUnavailable = errors.New(unavailable)

// Manager makes groups; there are none here.
type Manager struct{}

// Detect finds out what groups can do here: nothing.
func Detect(string) (*Manager, []string) { return &Manager{}, (&Manager{}).Isolation() }

// Find is a group that does nothing.
func Find(string) *Group { return &Group{} }

// Parent is empty.
func (*Manager) Parent() string { return "" }

// Isolation says that nothing is in force.
func (*Manager) Isolation() []string { return all(unavailable).general("") }

// Create makes a group that does nothing.
func (m *Manager) Create(name string, l Limits) (*Group, error) {
	return &Group{limits: l}, checkName(name)
}

// Remove does nothing.
func (*Manager) Remove() error { return nil }

// Group does nothing.
type Group struct{ limits Limits }

// Path is empty.
func (*Group) Path() string { return "" }

// Isolation says that nothing is in force.
func (g *Group) Isolation() []string { return all(unavailable).of(g.limits, "") }

// Bear runs start.
func (*Group) Bear(start func(fd int) ([]int, error)) error {
	_, err := start(-1)
	return err
}

// Holds is false.
func (*Group) Holds() bool { return false }

// CanFreeze is false.
func (*Group) CanFreeze() bool { return false }

// Freeze fails.
func (*Group) Freeze() error { return errUnavailable }

// Thaw fails.
func (*Group) Thaw() error { return errUnavailable }

// Frozen is false.
func (*Group) Frozen() (bool, error) { return false, errUnavailable }

// Update does nothing.
func (g *Group) Update(l Limits) bool {
	g.limits = l
	return false
}

// Procs is empty.
func (*Group) Procs() ([]int, error) { return nil, nil }

// Kill does nothing.
func (*Group) Kill() error { return nil }

// OOM is zero.
func (*Group) OOM() OOM { return OOM{} }

// Remove does nothing.
func (*Group) Remove() error { return nil }
