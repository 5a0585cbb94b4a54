"""Batch normalisation over the batches of all ranks."""

import torch
from torch.autograd import Function
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from ronde._basics import basics
from ronde._operations import Sum
from ronde.torch._async import allreduce_


class SyncBatchNorm(_BatchNorm):
    """As BatchNorm, but mean and variance are those of all ranks' batches together. Works on CPU too."""

    def _check_input_dim(self, tensor):
        if tensor.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {tensor.dim()}D input)")

    def forward(self, tensor):
        self._check_input_dim(tensor)
        is_batch = self.training or not self.track_running_stats
        if not is_batch or basics.size() == 1:
            return self._alone(tensor, is_batch)
        if self.training and self.track_running_stats:
            self.num_batches_tracked += 1
        output, mean, variance, count = _SyncNorm.apply(tensor, self.weight, self.bias, self.eps)
        if self.training and self.track_running_stats:
            self._remember(mean, variance, count)
        return output

    def _alone(self, tensor, is_batch):
        if self.training and self.track_running_stats:
            self.num_batches_tracked += 1
        mean, variance = self.running_mean, self.running_var
        return functional.batch_norm(
            tensor, mean, variance, self.weight, self.bias, is_batch, self._momentum(), self.eps
        )

    def _momentum(self):
        if self.momentum is not None:
            return self.momentum
        return 1.0 / float(self.num_batches_tracked) if self.num_batches_tracked else 0.0

    def _remember(self, mean, variance, count):
        momentum = self._momentum()
        unbiased = variance * (count / torch.clamp(count - 1, min=1))
        with torch.no_grad():
            self.running_mean.mul_(1 - momentum).add_(mean.to(self.running_mean.dtype), alpha=momentum)
            self.running_var.mul_(1 - momentum).add_(unbiased.to(self.running_var.dtype), alpha=momentum)


class _SyncNorm(Function):
    @staticmethod
    def forward(ctx, tensor, weight, bias, eps):
        # 1. count, sum and sum of squares of all ranks, in one message
        axes = [axis for axis in range(tensor.dim()) if axis != 1]
        channels = tensor.shape[1]
        local = tensor.detach().double()
        own = torch.tensor([local.numel() / max(channels, 1)], dtype=torch.float64, device=tensor.device)
        sums = torch.cat([own, local.sum(axes), (local * local).sum(axes)])
        allreduce_(sums, name="sync_batch_norm.forward", op=Sum)
        # 2. what follows from them
        count, mean = sums[0], sums[1 : channels + 1] / sums[0]
        variance = torch.clamp(sums[channels + 1 :] / count - mean * mean, min=0)
        inverse = torch.rsqrt(variance + eps)
        shape = [1, channels] + [1] * (tensor.dim() - 2)
        normal = ((local - mean.view(shape)) * inverse.view(shape)).to(tensor.dtype)
        output = normal if weight is None else normal * weight.view(shape) + bias.view(shape)
        ctx.save_for_backward(normal, weight, inverse, count)
        ctx.mark_non_differentiable(mean, variance, count)
        return output, mean, variance, count

    @staticmethod
    def backward(ctx, grad, *_):
        normal, weight, inverse, count = ctx.saved_tensors
        axes = [axis for axis in range(grad.dim()) if axis != 1]
        channels = grad.shape[1]
        shape = [1, channels] + [1] * (grad.dim() - 2)
        own_sum, own_product = grad.double().sum(axes), (grad.double() * normal).sum(axes)
        sums = torch.cat([own_sum, own_product])
        allreduce_(sums, name="sync_batch_norm.backward", op=Sum)
        mean_grad, mean_product = sums[:channels] / count, sums[channels:] / count
        inner = grad.double() - mean_grad.view(shape) - normal * mean_product.view(shape)
        scale = inverse if weight is None else inverse * weight
        input_grad = (inner * scale.view(shape)).to(grad.dtype)
        if weight is None:
            return input_grad, None, None, None
        return input_grad, own_product.to(weight.dtype), own_sum.to(weight.dtype), None
