package main

import (
	"context"
	"errors"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	nodePlugin       = "node.test"       // a node service only
	controllerPlugin = "controller.test" // its controller attaches volumes to nodes
	noPool           = "the pool of the volume is not configured"
)

// A fakePlugin is a CSI plugin on one host, with real mounts: a tmpfs for each staged volume.
type fakePlugin struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	csi.UnimplementedControllerServer

	name, node, socket string
	storage            *storage
	calm               bool // it fails no call, and delays none
	lacksPool          bool // of pooledVolume

	mutex  sync.Mutex
	chance *rand.Rand
	server *grpc.Server
	busy   sync.Map // a *sync.Mutex for each volume
}

func newPlugin(name, node, socket string, array *storage, seed int64) *fakePlugin {
	return &fakePlugin{name: name, node: node, socket: socket, storage: array, chance: rand.New(rand.NewSource(seed))}
}

func (p *fakePlugin) serve() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.server != nil {
		return nil
	}
	_ = os.Remove(p.socket)
	if err := os.MkdirAll(filepath.Dir(p.socket), 0o700); err != nil {
		return err
	}
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		return err
	}
	p.server = grpc.NewServer(grpc.UnaryInterceptor(p.disturb), grpc.WaitForHandlers(true))
	csi.RegisterIdentityServer(p.server, p)
	csi.RegisterNodeServer(p.server, p)
	if p.name == controllerPlugin {
		csi.RegisterControllerServer(p.server, p)
	}
	go p.server.Serve(listener)
	return nil
}

func (p *fakePlugin) stop() {
	p.mutex.Lock()
	server := p.server
	p.server = nil
	p.mutex.Unlock()
	if server != nil {
		server.Stop()
	}
}

// disturb delays calls that change something. Some fail before or after they have had their effect.
func (p *fakePlugin) disturb(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	if p.calm || !changes(info.FullMethod) {
		return handler(ctx, request)
	}
	p.mutex.Lock()
	delay, fate := p.chance.ExpFloat64()*3, p.chance.Float64()
	if p.chance.Float64() < 0.01 {
		delay = 1500 * p.chance.Float64()
	}
	p.mutex.Unlock()
	time.Sleep(time.Duration(delay * float64(time.Millisecond)))
	if fate < 0.01 {
		return nil, status.Error(codes.Unavailable, "the storage is busy")
	}
	if one, ok := request.(interface{ GetVolumeId() string }); ok && p.lacksPool && one.GetVolumeId() == pooledVolume {
		return nil, status.Error(codes.FailedPrecondition, noPool)
	}
	// As drivers do: one call at a time for a volume, and none whose caller has given it up. It would come after the
	// call that undoes it.
	if one, ok := request.(interface{ GetVolumeId() string }); ok {
		volume, _ := p.busy.LoadOrStore(one.GetVolumeId(), &sync.Mutex{})
		volume.(*sync.Mutex).Lock()
		defer volume.(*sync.Mutex).Unlock()
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	answer, err := handler(ctx, request)
	if fate > 0.99 && err == nil {
		return nil, status.Error(codes.Unavailable, "the answer of the storage is lost")
	}
	return answer, err
}

func changes(method string) bool {
	switch filepath.Base(method) {
	case "NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume", "ControllerPublishVolume",
		"ControllerUnpublishVolume":
		return true
	}
	return false
}

func (p *fakePlugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: p.name, VendorVersion: "1"}, nil
}

func (p *fakePlugin) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (p *fakePlugin) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (
	*csi.GetPluginCapabilitiesResponse, error) {
	answer := &csi.GetPluginCapabilitiesResponse{}
	if p.name == controllerPlugin {
		service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
		answer.Capabilities = []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{Service: service}}}
	}
	return answer, nil
}

func (p *fakePlugin) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (
	*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, one := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER} {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: one}}})
	}
	return answer, nil
}

func (p *fakePlugin) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (
	*csi.ValidateVolumeCapabilitiesResponse, error) {
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.VolumeContext, VolumeCapabilities: request.VolumeCapabilities,
		Parameters: request.Parameters}}, nil
}

func (p *fakePlugin) ControllerPublishVolume(_ context.Context, request *csi.ControllerPublishVolumeRequest) (
	*csi.ControllerPublishVolumeResponse, error) {
	access := accessOf(request.VolumeCapability)
	if !p.storage.attach(request.VolumeId, request.NodeId, access) {
		return nil, status.Error(codes.FailedPrecondition, "the volume is attached to another node")
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"node": request.NodeId}}, nil
}

func (p *fakePlugin) ControllerUnpublishVolume(_ context.Context, request *csi.ControllerUnpublishVolumeRequest) (
	*csi.ControllerUnpublishVolumeResponse, error) {
	p.storage.detach(request.VolumeId, request.NodeId)
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (p *fakePlugin) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: p.node}, nil
}

func (p *fakePlugin) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (
	*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, one := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER} {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: one}}})
	}
	return answer, nil
}

func (p *fakePlugin) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (
	*csi.NodeStageVolumeResponse, error) {
	if !p.storage.stage(request.VolumeId, p.node) {
		return nil, status.Error(codes.FailedPrecondition, "the volume is not attached to this node")
	}
	if isMounted(request.StagingTargetPath) {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	if p.storage.directory != "" {
		disk := filepath.Join(p.storage.directory, request.VolumeId)
		return &csi.NodeStageVolumeResponse{}, internal(syscall.Mount(disk, request.StagingTargetPath, "", syscall.MS_BIND, ""))
	}
	err := syscall.Mount(request.VolumeId, request.StagingTargetPath, "tmpfs", 0, "size=64k")
	return &csi.NodeStageVolumeResponse{}, internal(err)
}

func (p *fakePlugin) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (
	*csi.NodeUnstageVolumeResponse, error) {
	err := unmount(request.StagingTargetPath)
	if err == nil {
		p.storage.unstage(request.VolumeId, p.node)
	}
	return &csi.NodeUnstageVolumeResponse{}, internal(err)
}

func (p *fakePlugin) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (
	*csi.NodePublishVolumeResponse, error) {
	if !isMounted(request.StagingTargetPath) {
		return nil, status.Error(codes.FailedPrecondition, "the volume is not staged")
	}
	err := os.MkdirAll(request.TargetPath, 0o750)
	if err == nil && !isMounted(request.TargetPath) {
		err = syscall.Mount(request.StagingTargetPath, request.TargetPath, "", syscall.MS_BIND, "")
	}
	if err == nil && request.Readonly {
		err = syscall.Mount("", request.TargetPath, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
	}
	if err == nil {
		p.storage.publish(request.VolumeId, request.TargetPath,
			publication{p.node, accessOf(request.VolumeCapability), request.Readonly})
	}
	return &csi.NodePublishVolumeResponse{}, internal(err)
}

func (p *fakePlugin) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (
	*csi.NodeUnpublishVolumeResponse, error) {
	err := unmount(request.TargetPath)
	if err == nil {
		_ = os.Remove(request.TargetPath)
		p.storage.unpublish(request.VolumeId, request.TargetPath)
	}
	return &csi.NodeUnpublishVolumeResponse{}, internal(err)
}

// accessOf gives the number that manager.proto has for CSI's mode.
func accessOf(capability *csi.VolumeCapability) int32 {
	switch capability.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		return singleNodeReader
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:
		return singleNodeWriter
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER:
		return singleNodeSingleWriter
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return singleNodeMultiWriter
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:
		return multiNodeReader
	case csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:
		return multiNodeSingleWriter
	}
	return multiNodeMultiWriter
}

func internal(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EBUSY) {
		return status.Error(codes.FailedPrecondition, "the mount is in use")
	}
	return status.Error(codes.Internal, err.Error())
}

func isMounted(path string) bool {
	for _, mount := range mountsBelow(path) {
		if mount == path {
			return true
		}
	}
	return false
}

func unmount(path string) error {
	for isMounted(path) {
		if err := syscall.Unmount(path, 0); err != nil {
			return err
		}
	}
	return nil
}
